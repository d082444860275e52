"""transport: how ranks meet, speak, count what they send, and notice who is gone."""
