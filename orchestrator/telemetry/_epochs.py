"""Steps that begin again in every epoch, counted on."""


class Epochs:
    """
    >>> epochs = Epochs()
    >>> [epochs.step(*at) for at in ((0, 0), (0, 1), (1, 0), (1, 1), (0, 1))]
    [0, 1, 2, 3, 1]
    """

    def __init__(self) -> None:
        self.begun = False
        self._before = {0: 0}  # per epoch the steps of the epochs before it
        self._epoch = self._step = 0

    def step(self, epoch: int, step: int) -> int:
        """The step over all epochs; a first epoch other than 0 begins at 0 too."""
        if self.begun and epoch > self._epoch:
            self._before[epoch] = self._before.get(self._epoch, 0) + self._step + 1
        self.begun = True
        self._epoch, self._step = epoch, step
        return self._before.get(epoch, 0) + step
