"""The changing calls of all doors: they check a JSON body and the caller's rights and call a
service. The doors render the results."""
