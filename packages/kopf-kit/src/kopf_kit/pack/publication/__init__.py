"""What a release publishes beside its images: `kopf-kit release` makes, signs and checks it.

source         the commit that a release is made of, and the commits that releasing adds
packages       the Python packages in packages/, built the same from the same sources
materials      bills of materials of images
statements     where a release comes from (SLSA)
images         the images by their digests: given, found, or built and pushed
files          all files of a release, their checksums, and the image that carries them
charts         the chart, packed and signed
signatures     the keys, and what is signed and attested with them
"""
