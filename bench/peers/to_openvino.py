"""A model folder of transformers as OpenVINO's, in float32: python to_openvino.py FOLDER OUT."""

import sys

from optimum.intel import OVModelForCausalLM

if __name__ == "__main__":
    model = OVModelForCausalLM.from_pretrained(
        sys.argv[1], export=True, compile=False, load_in_8bit=False
    )
    model.save_pretrained(sys.argv[2])
