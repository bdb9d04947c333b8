"""Read and write files of other tools."""
