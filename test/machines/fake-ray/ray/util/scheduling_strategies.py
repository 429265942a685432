def PlacementGroupSchedulingStrategy(group, placement_group_bundle_index):
    return placement_group_bundle_index
