"""One function per user story; where everything meets.

Files are read and checked before torch is imported (which takes a second or more), so that bad input is refused at
once: functions here import what needs torch inside.
"""
