"""What bodies and queries may say. How they come over HTTP is in http/."""
