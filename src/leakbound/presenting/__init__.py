"""Views, tables and sentences that present estimates to readers."""
