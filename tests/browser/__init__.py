"""The board in a real browser: JupyterLab, a kernel, and Chromium through Playwright."""
