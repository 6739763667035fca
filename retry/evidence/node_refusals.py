"""Why a node refuses a pod that was given to it, and whether another one may take it.

The words are the kubelet's, as a Failed pod has them for its reason. Such a pod has no container
statuses: nothing of it ever ran.
"""

from collections.abc import Mapping

REFUSED = "NodeRefused"
"""The condition that stands for any of them, also for those that nobody has heard of."""

NODE_REFUSALS: Mapping[str, bool] = {
    # The scheduler and the node know different things of the node.
    "NodeAffinity": True,
    "NodeName": True,
    "NodePorts": True,
    "TaintToleration": True,
    "node(s) had taints that the pod didn't tolerate": True,
    "PodOSSelectorNodeLabelDoesNotMatch": True,
    "VolumeAttachmentLimitExceeded": True,
    "NodeShutdown": True,
    # The node cannot tell, or something went wrong in it.
    "InvalidNodeInfo": True,
    "UnexpectedAdmissionError": True,
    "UnexpectedPredicateFailureType": True,
    "UnknownReason": True,
    # It has enough, but not together.
    "TopologyAffinityError": True,
    # Profiles are loaded node by node; a newer node or runtime can what this one cannot.
    "AppArmor": True,
    "InitContainerRestartPolicyForbidden": True,
    "PodFeatureUnsupported": True,
    "PodLevelResourcesNotSupported": True,
    "SupplementalGroupsPolicyNotSupported": True,
    # What the pod asks for is set up alike on all nodes, and the scheduler looks at none of it.
    "PodOSNotSupported": False,
    "SMTAlignmentError": False,
    "SysctlForbidden": False,
}
"""Whether another node may take the pod. Beside them there is `OutOf` with the name of a resource,
for which another node may have room; `Evicted` and `Preempting` have causes of their own."""
