"""Draw outputs: the queries of a model, the draws, and the run that stores them."""
