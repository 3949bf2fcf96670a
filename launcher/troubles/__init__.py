"""Known troubles of engine logs, kernel logs and journals, one module a subject; launcher/diagnosis.py puts them in order."""
