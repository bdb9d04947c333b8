"""Drawing: the queries of a model, the draws of its outputs, and the run that stores them."""
