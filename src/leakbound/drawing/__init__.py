"""Drawing: the queries of a model, how its outputs are drawn, and the run that stores them."""
