"""Other tools' files, read and written."""
