"""What is written of executors and leases. Who gets what is decided in allocation/."""
