"""What runs tell Reprise by printing lines.

Server and executor read such lines with this package; it imports neither. What processes of Reprise
write to their own logs is in `loglines`.
"""
