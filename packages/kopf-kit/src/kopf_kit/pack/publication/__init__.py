"""What a release publishes beside its images: `kopf-kit release` makes, signs and checks it.

source         the commit that a release is made of, and the commits that releasing adds
packages       the Python packages in packages/, built the same from the same sources
index          the package index that gets them
materials      bills of materials, of the lock and of images
statements     where an image comes from (SLSA), and which vulnerabilities do not matter (OpenVEX)
images         the images by their digests: given, found, or built and pushed
files          all files of a release, their checksums, and the image that carries them
charts         the chart, packed and signed
signatures     the keys, and what is signed and attested with them
"""
