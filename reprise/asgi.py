"""The ASGI application: the front over the WSGI application."""

from reprise.wsgi import application as wsgi_application

from reprise.front.app import Front  # isort: skip  # models can be imported only after Django's set-up

application = Front(wsgi_application)
