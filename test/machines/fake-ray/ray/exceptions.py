class RayActorError(Exception):
    pass
