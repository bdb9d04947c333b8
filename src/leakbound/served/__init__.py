"""Models behind OpenAI-compatible servers: one client, one negotiation of fields, one journal."""
