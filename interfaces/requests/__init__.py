"""The allowed bodies and queries. Reading them from HTTP is in http/."""
