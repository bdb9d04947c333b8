"""Draw outputs: make the queries, draw the models' outputs, and store them in a run."""
