"""Prepare an evaluation: check and resolve the study before anything is drawn."""
