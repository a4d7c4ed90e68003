"""Builders that integration and end-to-end tests share: engines, gateways, clients, processes."""
