"""Functions of texts that do not depend on models: ROUGE-L, keywords, classes of outputs, files."""
