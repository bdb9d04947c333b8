"""The study: all that is asked of a model, as frozen values: `Study`, and its parts."""

from leakbound.study.rewritings import Rewritings
from leakbound.study.sampling import FORWARDS, Attack, Explore, FixedN, Prove, SamplingPlan, Until
from leakbound.study.settings import Loading, ModelSettings
from leakbound.study.study import CONFIDENCE, RHO, Study, StudyFields, study_of

__all__ = [
    "CONFIDENCE",
    "FORWARDS",
    "RHO",
    "Attack",
    "Explore",
    "FixedN",
    "Loading",
    "ModelSettings",
    "Prove",
    "Rewritings",
    "SamplingPlan",
    "Study",
    "StudyFields",
    "Until",
    "study_of",
]
