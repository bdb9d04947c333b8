"""The search for the input that makes a model leak most, and what fresh draws say of it."""
