"""The admin as a site: login, front page, periodic tasks. The other pages are in the apps."""
