"""forecast: predicts the traffic and time of a cluster."""
