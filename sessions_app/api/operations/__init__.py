"""The calls that change something, for every door: a JSON body in, through its checks and the
authorization table, to the service. What comes of it is rendered by the door."""
