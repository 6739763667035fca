"""The driver that runs sessions as processes of this machine. It knows no cluster."""
