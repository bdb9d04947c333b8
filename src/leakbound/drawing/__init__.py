"""Drawing: what a model is asked, how its outputs are drawn, and the run they go into."""
