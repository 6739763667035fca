"""The doors to executors: their wire protocol, and REST for those who look after them."""
