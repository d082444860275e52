"""transport: how ranks meet, communicate, count traffic, and detect failures."""
