"""interop: adapters to other libraries; imports anything, and nothing imports it."""
