"""Panels for a notebook that only wire controls to what is below."""
