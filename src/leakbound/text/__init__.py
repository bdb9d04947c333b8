"""Text measures that know nothing of prompts or models: ROUGE-L and keywords."""
