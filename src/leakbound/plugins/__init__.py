"""Plug-ins that compute bounds inside other tools; each module is for one tool."""
