"""The admin as a site: login, front page, periodic tasks. The apps bring the other pages."""
