"""Reasons why a node refuses a pod that was assigned to it, and whether another may take it.

The words are the kubelet's, as a Failed pod has them as its reason. Such a pod has no container
statuses: none of its containers ever ran.
"""

from collections.abc import Mapping

REFUSED = "NodeRefused"
"""The condition that stands for any refusal, also one with an unknown reason."""

NODE_REFUSALS: Mapping[str, bool] = {
    # The scheduler and the node have different views of the node.
    "NodeAffinity": True,
    "NodeName": True,
    "NodePorts": True,
    "TaintToleration": True,
    "node(s) had taints that the pod didn't tolerate": True,
    "PodOSSelectorNodeLabelDoesNotMatch": True,
    "VolumeAttachmentLimitExceeded": True,
    "NodeShutdown": True,
    # The node cannot tell, or has an internal error.
    "InvalidNodeInfo": True,
    "UnexpectedAdmissionError": True,
    "UnexpectedPredicateFailureType": True,
    "UnknownReason": True,
    # It has enough resources, but not on one NUMA node.
    "TopologyAffinityError": True,
    # Profiles are loaded per node; a newer node or runtime may have the feature.
    "AppArmor": True,
    "InitContainerRestartPolicyForbidden": True,
    "PodFeatureUnsupported": True,
    "PodLevelResourcesNotSupported": True,
    "SupplementalGroupsPolicyNotSupported": True,
    # All nodes are set up alike for these, and the scheduler checks none of them.
    "PodOSNotSupported": False,
    "SMTAlignmentError": False,
    "SysctlForbidden": False,
}
"""Whether another node may take the pod, by the kubelet's reason. Other reasons are `OutOf` with
the name of a resource, for which another node may have room; `Evicted` and `Preempting` have causes
of their own."""
