"""What holds for every test."""

from hypothesis import settings

# Machines that run tests are busy; how long an example takes says nothing about the code.
settings.register_profile("smg", deadline=None)
settings.load_profile("smg")
