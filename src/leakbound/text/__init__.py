"""Text measures that are independent of prompts and models: ROUGE-L and keywords."""
