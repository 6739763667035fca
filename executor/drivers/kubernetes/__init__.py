"""The driver that runs sessions as pods. Only api.py imports the client of Kubernetes."""
