"""What the web pages need to say values to people."""
