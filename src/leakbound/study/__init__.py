"""The settings of an evaluation as frozen values: `Study` and its parts."""

from leakbound.study.rewritings import Rewritings as Rewritings
from leakbound.study.sampling import Attack as Attack
from leakbound.study.sampling import Explore as Explore
from leakbound.study.sampling import FixedN as FixedN
from leakbound.study.sampling import Prove as Prove
from leakbound.study.sampling import SamplingPlan as SamplingPlan
from leakbound.study.sampling import Until as Until
from leakbound.study.settings import Loading as Loading
from leakbound.study.settings import ModelSettings as ModelSettings
from leakbound.study.study import CONFIDENCE as CONFIDENCE
from leakbound.study.study import RHO as RHO
from leakbound.study.study import Study as Study
from leakbound.study.study import StudyFields as StudyFields
from leakbound.study.study import study_of as study_of
