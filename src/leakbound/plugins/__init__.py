"""Plug-ins that compute bounds inside other tools; each module except `draws` is for one tool."""
