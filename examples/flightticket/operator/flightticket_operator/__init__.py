"""Books a flight for every FlightTicket at a booking service, and cancels it with that."""

#: The version of the operator; image, chart and bundle follow. `kopf-kit bump` raises it.
__version__ = "0.1.0"
