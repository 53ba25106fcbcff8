"""What every test stands on: an environment that a user's own settings do not reach."""

from hack.pack.project import PROJECT
from hack.rig import environment

environment.scrub_for_tests(PROJECT.environment)
