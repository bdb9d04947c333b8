"""Draw from models behind OpenAI-compatible servers, and query chat models on such servers."""
