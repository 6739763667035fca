"""What all REST calls share: tokens, bodies, pages, problems. No record is named here."""
