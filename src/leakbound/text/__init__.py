"""Functions on texts that need no model: ROUGE-L, keywords, classes of outputs, files."""
